/* The container that holds a pod's namespaces: it waits, and ends when asked. */
#include <signal.h>
#include <unistd.h>

static void end(int number) { _exit(0); }

int main(void) {
  signal(SIGTERM, end);
  signal(SIGINT, end);
  for (;;) pause();
}
