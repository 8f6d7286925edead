"""Files that people send along with a message: kept until a message claims them."""
