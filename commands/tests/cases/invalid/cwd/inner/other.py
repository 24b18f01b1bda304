# The suite asks for another file.
