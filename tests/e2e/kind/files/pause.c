/* Holds the namespaces of a Pod, and reaps what is reparented to it. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void end(int signal) { _exit(0); (void)signal; }
static void reap(int signal) { while (waitpid(-1, 0, WNOHANG) > 0) {} (void)signal; }

int main(void)
{
	signal(SIGINT, end);
	signal(SIGTERM, end);
	signal(SIGCHLD, reap);
	for (;;)
		pause();
}
