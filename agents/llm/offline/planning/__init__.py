"""From words and formulas to an IR: every content word of a request is accounted for, or the request is refused."""
