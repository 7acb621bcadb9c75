"""What the explorer's places show, as plain data: a list in each place, and a page for each of its rows."""
