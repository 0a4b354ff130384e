"""What a person sees and does: the commands, the pages and the explanations."""
