"""For tests of programs that compile: the pytest plugin, loaded by pytest itself."""
