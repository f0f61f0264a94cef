"""The engine process of a worker: tasks, state, rows. No lease, no commits, no signals.

What belongs here: threads, queues and the order of calls around the pure :class:`TaskCore`.
What does not: any rule of the protocols (``penstock.protocol``), any format (``model``).

    main thread       reads commands of the keeper, builds attempts        main.py, worker.py
    one per task      inbox -> core -> steps -> router -> outputs          task_thread.py
    snapshot writer   writes snapshots and prepares output                 checkpoint_files.py
    publisher         makes committed output visible, retries              output_publisher.py
    status            sends the state of the engine repeatedly             worker.py
"""
