"""What a screen or a section shows, as plain data. The faces (text, JSON, HTML, TUI) only draw."""
