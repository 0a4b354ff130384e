"""What is shown to a person: pictures and pages. Rows and figures come in, text comes out."""
