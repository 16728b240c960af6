// Nothing: the program that this belongs to exists for its precompiled header, which all tests use.
