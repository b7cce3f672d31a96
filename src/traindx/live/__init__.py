"""At the bedside: a judge in a process of its own follows the record of a run and speaks while it trains."""
