"""Values, protocols and formats that all packages share. Imports only `errors` and `offsets`."""
