"""What every test runs under; read before any of them imports NumPy."""

import os

# As the command line does: on small machines BLAS threads mostly wait for each other, and for the tests beside them.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
