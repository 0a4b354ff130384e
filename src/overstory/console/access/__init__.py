"""Who may use the console: sessions, roles, and requests that another site could have caused."""
