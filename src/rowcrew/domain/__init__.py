"""What the words mean. No I/O, no clock, no asyncio, no SQL, no logging."""
