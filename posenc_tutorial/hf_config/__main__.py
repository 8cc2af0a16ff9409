"""``python -m posenc_tutorial.hf_config``."""

from .command import main

raise SystemExit(main())
