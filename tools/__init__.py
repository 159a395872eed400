"""Programs with which the project measures itself. The wheel does not contain them."""
