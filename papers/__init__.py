"""The papers, reproduced: each published number beside ours, with a verdict that is computed.

For a checkout of the source: the installed package has none of it.
"""
