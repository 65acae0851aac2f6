"""ROxford and RParis, revisited."""
