from compdbg.cli.main import main

raise SystemExit(main())
