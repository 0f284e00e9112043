/* SPDX-License-Identifier: Apache-2.0 */
/* What the user-space tunnels here share: addresses, and how a program of ours ends. */
#pragma once

#include <arpa/inet.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BUFFER 65536

static void fail(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(1);
}

static struct sockaddr_in endpoint(const char *address, uint16_t port)
{
	struct sockaddr_in result = {.sin_family = AF_INET, .sin_port = htons(port)};

	if (inet_pton(AF_INET, address, &result.sin_addr) != 1) {
		fprintf(stderr, "%s: not an IPv4 address\n", address);
		exit(2);
	}
	return result;
}

/* 1: done or dropped, as a network may; 0: nothing there. Ends the program on an error that will not pass. */
static int went(ssize_t result, const char *what)
{
	if (result >= 0)
		return 1;
	switch (errno) {
	case EAGAIN:
		return 0;
	case EINTR:
	case ECONNREFUSED: /* an ICMP error about an earlier datagram */
	case EHOSTUNREACH:
	case ENETUNREACH:
	case ENOBUFS:
	case EMSGSIZE:
	case EPERM: /* a packet filter */
	case EINVAL: /* not a packet that the device takes */
	case ENETDOWN:
		return 1;
	default:
		fail(what);
		return 0;
	}
}
