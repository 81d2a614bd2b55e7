"""What pages share: layout, controls, the player, charts, the choice of a GPU."""
