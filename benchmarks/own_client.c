/* A load generator that is told over a pipe when to run: what benchmarks/own_client.py compares the
 * paused netperf and iperf3 with. It is not part of cnibench.
 *
 *     own_client server PORT rr|stream
 *     own_client client ADDRESS PORT rr|stream
 *
 * The client reads lines "LEAD-IN LENGTH" (ns) from its standard input. For each it runs that long
 * and prints "COUNT NS": transactions of one byte, or acknowledged bytes, after the lead-in.
 */
#include <arpa/inet.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MESSAGE (1 << 20) /* bytes of one write of a stream: iperf3's largest */

static char buffer[MESSAGE];

static uint64_t now(void)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	return at.tv_sec * 1000000000ull + at.tv_nsec;
}

static void check(int good, const char *what)
{
	if (!good) {
		perror(what);
		exit(1);
	}
}

static uint64_t acknowledged(int fd)
{
	struct tcp_info info;
	socklen_t size = sizeof(info);

	check(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0, "TCP_INFO");
	return info.tcpi_bytes_acked;
}

static int serve(int fd, int stream)
{
	int one = 1, peer;
	ssize_t got;

	check(listen(fd, 1) == 0, "listen");
	puts("listening");
	fflush(stdout);
	peer = accept(fd, NULL, NULL);
	check(peer >= 0, "accept");
	setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	while ((got = recv(peer, buffer, stream ? sizeof(buffer) : 1, 0)) > 0)
		if (!stream)
			check(send(peer, buffer, 1, 0) == 1, "send");
	return 0;
}

static int drive(int fd, int stream)
{
	unsigned long long lead, length;

	while (scanf("%llu %llu", &lead, &length) == 2) {
		uint64_t at = now(), first = at + lead, last = 0, began = 0, count = 0;

		for (;;) {
			if (!began && at >= first) {
				began = at;
				last = at + length;
				count = stream ? acknowledged(fd) : 0;
			}
			if (began && at >= last)
				break;
			if (stream) {
				check(send(fd, buffer, sizeof(buffer), 0) > 0, "send");
			} else {
				check(send(fd, buffer, 1, 0) == 1, "send");
				check(recv(fd, buffer, 1, 0) == 1, "recv");
				count++;
			}
			at = now();
		}
		if (stream)
			count = acknowledged(fd) - count;
		printf("%llu %llu\n", (unsigned long long)count, (unsigned long long)(at - began));
		fflush(stdout);
	}
	return 0;
}

int main(int argc, char **argv)
{
	int client = argc > 1 && strcmp(argv[1], "client") == 0, one = 1, fd, stream;
	struct sockaddr_in address = {.sin_family = AF_INET};

	if (argc != 4 + client)
		return 2;
	stream = strcmp(argv[argc - 1], "stream") == 0;
	address.sin_port = htons(atoi(argv[argc - 2]));
	if (client)
		inet_pton(AF_INET, argv[2], &address.sin_addr);
	fd = socket(AF_INET, SOCK_STREAM, 0);
	check(fd >= 0, "socket");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (client) {
		check(connect(fd, (void *)&address, sizeof(address)) == 0, "connect");
		return drive(fd, stream);
	}
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	check(bind(fd, (void *)&address, sizeof(address)) == 0, "bind");
	return serve(fd, stream);
}
