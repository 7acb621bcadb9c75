from compdbg.launch.child import start_from_environment

start_from_environment()
