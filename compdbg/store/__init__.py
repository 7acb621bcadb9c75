"""Reading runs from disk, whatever state they are in. Never executes what it reads."""
