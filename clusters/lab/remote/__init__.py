"""The lab on two machines: what runs on each of them. It is sent there over ssh and reaches no
further than its machine; clusters/ssh/lab tells it what to do.
"""
