"""Whether a candidate is no worse than its base: the judgement, what a history remembers of earlier
ones, plans, and what explains them.
"""
