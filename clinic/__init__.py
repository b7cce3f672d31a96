"""The clinic: sick and healthy training programs with the truth beside them, and the scorer that measures traindx on them."""
