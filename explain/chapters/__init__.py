"""The chapters' rooms: each has its values, its pictures (`figures`) and its page's parts (`view`)."""
