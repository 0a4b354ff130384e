"""What an attacker can conclude: a value, whether a device is the same one, and how often he is right."""
