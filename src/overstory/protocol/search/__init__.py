"""Plans of a search: how the devices are divided over questions, and what each is asked. The standard library alone."""
