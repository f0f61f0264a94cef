"""What objects look like to the operator: views, classes of fields, names, rights. Pure."""
