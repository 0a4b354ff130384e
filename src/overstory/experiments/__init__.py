"""The papers, reproduced: each published number beside ours, with a verdict that is computed."""
