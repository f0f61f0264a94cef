"""A virtual disk and a virtual network file system below the code that ships."""
