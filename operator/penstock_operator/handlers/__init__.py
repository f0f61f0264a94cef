"""From watches to reconciles. Events only put jobs into a queue; decisions are based on reads."""
