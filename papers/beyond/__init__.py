"""What the papers leave open: their problems by every oracle, and how many people it takes."""
