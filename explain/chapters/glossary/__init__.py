"""The room of the page Glossary."""
