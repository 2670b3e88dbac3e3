"""rowcrew runs one agent over every row of a table, as a durable job."""
