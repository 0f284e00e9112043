"""Cycles per packet: from perf's samples to components of the kernel's packet path (qi2021,
equation 1).

perfdata reads perf's file, symbols names addresses, stacks says whose work a stack is, taxonomy
says which component a function belongs to, attribution adds up, record makes the line of cpp.jsonl,
flamegraph and difference draw.
"""
