"""Chapter 9, Glossary."""
