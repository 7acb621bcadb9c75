"""The report's page: static HTML that reads without scripts, data, and the scripts that draw it."""
