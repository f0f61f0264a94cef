"""An engine: what one worker's tasks are told when orders come, and what is reported of them."""
