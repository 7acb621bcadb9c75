"""The faces that print: text and JSON (and HTML, Markdown) made from views."""
