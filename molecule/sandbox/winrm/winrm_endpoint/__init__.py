"""A WinRM endpoint for hosts that are not Windows: WS-Management with the cmd shell of MS-WSMV. See README.md beside the package."""
