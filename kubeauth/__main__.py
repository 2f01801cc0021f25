"""`python -m kubeauth`: the command line."""

from kubeauth.cli import main

if __name__ == "__main__":
    main()
