/* SPDX-License-Identifier: Apache-2.0 */
/* Flannel's UDP backend: IP packets from a TUN device into UDP datagrams to the node that has their subnet, and back.
 *
 * usage: flannel_udp TUN-DEVICE OWN-ADDRESS SUBNET/LENGTH=NODE-ADDRESS...
 *
 * Written after flannel v0.28.9 pkg/backend/udp/proxy_amd64.c: one thread, poll(2) on the device and the socket, one packet a call in each
 * direction until neither has one, a routing table searched from its beginning, the TTL lowered on the way out. The socket has the kernel's
 * own buffers, and a datagram that it has no room for is waited with (cproxy_amd64.go: File.Fd() makes it block). No checksum and no
 * segmentation offload on the device (IFF_VNET_HDR is not asked for), as there. A packet without a route or without TTL left is dropped
 * (flannel would send an ICMP error). */
#include "datagram.h"

#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <linux/ip.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>

#define PORT 8285
#define MOST_ROUTES 64

struct route {
	uint32_t network, mask; /* network byte order */
	struct sockaddr_in next_hop;
};

static struct route routes[MOST_ROUTES];
static int route_count;

static void add_route(char *text)
{
	char *slash = strchr(text, '/'), *equals = strchr(text, '=');
	int length;

	if (!slash || !equals || route_count == MOST_ROUTES) {
		fprintf(stderr, "%s: not SUBNET/LENGTH=NODE-ADDRESS, or one too many\n", text);
		exit(2);
	}
	*slash = *equals = '\0';
	length = atoi(slash + 1);
	if (length < 1 || length > 32) {
		fprintf(stderr, "%s: not a length\n", slash + 1);
		exit(2);
	}
	routes[route_count].mask = htonl(0xffffffffu << (32 - length));
	routes[route_count].network = endpoint(text, 0).sin_addr.s_addr & routes[route_count].mask;
	routes[route_count++].next_hop = endpoint(equals + 1, PORT);
}

static int open_tun(const char *name)
{
	struct ifreq request = {.ifr_flags = IFF_TUN | IFF_NO_PI};
	int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0)
		fail("/dev/net/tun");
	strncpy(request.ifr_name, name, IFNAMSIZ - 1);
	if (ioctl(fd, TUNSETIFF, &request))
		fail("TUNSETIFF");
	return fd;
}

static const struct sockaddr_in *next_hop(uint32_t target)
{
	for (int i = 0; i < route_count; i++)
		if ((target & routes[i].mask) == routes[i].network)
			return &routes[i].next_hop;
	return NULL;
}

/* RFC 1624, as proxy_amd64.c's decrement_ttl does it */
static int lower_ttl(struct iphdr *ip)
{
	uint32_t sum;

	if (--ip->ttl == 0)
		return 0;
	sum = ip->check + htons(0x0100);
	ip->check = (uint16_t)(sum + (sum >= 0xffff));
	return 1;
}

static int tun_to_udp(int tun, int sock)
{
	static char packet[BUFFER];
	struct iphdr *ip = (struct iphdr *)packet;
	ssize_t length = read(tun, packet, sizeof(packet));
	const struct sockaddr_in *to;

	if (length < 0)
		return went(length, "read of the TUN device");
	if ((size_t)length < sizeof(*ip) || ip->version != 4)
		return 1;
	to = next_hop(ip->daddr);
	if (to && lower_ttl(ip))
		went(sendto(sock, packet, length, 0, (const struct sockaddr *)to, sizeof(*to)), "sendto");
	return 1;
}

static int listening(const struct sockaddr_in *local)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		fail("socket");
	if (bind(fd, (const struct sockaddr *)local, sizeof(*local)))
		fail("bind");
	return fd;
}

/* flanneld is a program in Go, and the network poller of Go has the socket twice: by net.ListenUDP, and by the copy that the C code works with.
 * Whatever comes or has left wakes the thread that waits there, which finds nobody who asked for it. */
static void *poller(void *given)
{
	int sock = *(int *)given, copy = dup(sock), fd = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event both = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET}, found[128];

	if (copy < 0 || fd < 0 || epoll_ctl(fd, EPOLL_CTL_ADD, sock, &both) || epoll_ctl(fd, EPOLL_CTL_ADD, copy, &both))
		fail("epoll");
	for (;;)
		epoll_wait(fd, found, sizeof(found) / sizeof(*found), -1);
	return NULL;
}

static int udp_to_tun(int sock, int tun)
{
	static char packet[BUFFER];
	struct iphdr *ip = (struct iphdr *)packet;
	ssize_t length = recv(sock, packet, sizeof(packet), MSG_DONTWAIT);

	if (length < 0)
		return went(length, "recv");
	if ((size_t)length >= sizeof(*ip) && ip->version == 4 && lower_ttl(ip))
		went(write(tun, packet, length), "write to the TUN device");
	return 1;
}

int main(int argc, char **argv)
{
	struct pollfd waiting[2];
	struct sockaddr_in local;
	pthread_t other;
	int tun, sock;

	if (argc < 4) {
		fprintf(stderr, "usage: %s TUN-DEVICE OWN-ADDRESS SUBNET/LENGTH=NODE-ADDRESS...\n", argv[0]);
		return 2;
	}
	for (int i = 3; i < argc; i++)
		add_route(argv[i]);
	local = endpoint(argv[2], PORT);
	sock = listening(&local);
	tun = open_tun(argv[1]);
	errno = pthread_create(&other, NULL, poller, &sock);
	if (errno)
		fail("pthread_create");
	waiting[0] = (struct pollfd){.fd = tun, .events = POLLIN};
	waiting[1] = (struct pollfd){.fd = sock, .events = POLLIN};
	for (;;) {
		int active;

		if (poll(waiting, 2, -1) < 0 && errno != EINTR)
			fail("poll");
		do {
			active = tun_to_udp(tun, sock);
			active |= udp_to_tun(sock, tun);
		} while (active);
	}
}

/* of the sources that this was made from: setup.py tells by it whether the program is up to date */
__attribute__((used)) static const char sources[] = SOURCES;
