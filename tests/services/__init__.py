"""The services that the suite needs: what answers is used, what is missing is brought up."""
