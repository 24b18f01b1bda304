/* Both ranks of a job in one thread, on communicators that do not block: nothing may wait. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct comm *comm;
typedef struct { char bytes[128]; } id;
enum { success = 0, in_progress = 7, float32 = 7, sum = 0, no_color = -1 };

int ncclGetVersion(int *version);
int ncclGetUniqueId(id *out);
int ncclCommInitRankConfig(comm *out, int size, id unique, int rank, void *config);
int ncclCommSplit(comm parent, int color, int key, comm *out, void *config);
int ncclCommGetAsyncError(comm self, int *state);
int ncclAllReduce(const void *send, void *receive, size_t count, int type, int op, comm self, void *stream);
int ncclCommFinalize(comm self);
int ncclCommDestroy(comm self);
int ncclGroupStart(void);
int ncclGroupEnd(void);
const char *ncclGetLastError(comm self);

#define EXPECT(call, wanted) expect(call, wanted, #call, __LINE__)

static void expect(int code, int wanted, const char *what, int line) {
    if (code != wanted) {
        fprintf(stderr, "line %d: %s returned %d (%s), expected %d\n", line, what, code, ncclGetLastError(NULL), wanted);
        exit(1);
    }
}

/* As the documentation says: asks until the communicator is no longer in progress. */
static void finish(comm self) {
    int state = in_progress;
    while (state == in_progress)
        EXPECT(ncclCommGetAsyncError(self, &state), success);
    EXPECT(state, success);
}

static void reduce(comm self, size_t count) {
    static float data[8];
    EXPECT(ncclAllReduce(data, data, count, float32, sum, self, NULL), in_progress);
    finish(self);
}

int main(void) {
    comm world[2], pair[2], late[2], single[2];
    int version, config = 0;
    id unique = {{0}};
    EXPECT(ncclGetUniqueId(&unique), success);
    for (int rank = 0; rank < 2; rank++)
        EXPECT(ncclCommInitRankConfig(&world[rank], 2, unique, rank, NULL), in_progress);
    for (int rank = 0; rank < 2; rank++)
        finish(world[rank]);
    for (int rank = 0; rank < 2; rank++)
        reduce(world[rank], 7);

    for (int rank = 0; rank < 2; rank++)
        EXPECT(ncclCommSplit(world[rank], 0, -rank, &pair[rank], NULL), in_progress);
    for (int rank = 0; rank < 2; rank++)
        finish(world[rank]);
    for (int rank = 0; rank < 2; rank++)
        reduce(pair[rank], 3);

    /* As PyTorch's comments say, a handle may be written after the communicator that is split is no longer in progress. */
    for (int rank = 0; rank < 2; rank++)
        EXPECT(ncclCommSplit(world[rank], 0, rank, &late[rank], &config), in_progress);
    for (int rank = 0; rank < 2; rank++)
        finish(world[rank]);
    EXPECT(late[0] == NULL && late[1] == NULL, 1);
    EXPECT(ncclGetVersion(&version), success);
    for (int rank = 0; rank < 2; rank++)
        reduce(late[rank], 2);

    /* In a group, whose end is in progress; rank 1 is left without a communicator. */
    EXPECT(ncclGroupStart(), success);
    for (int rank = 0; rank < 2; rank++)
        EXPECT(ncclCommSplit(world[rank], rank == 0 ? 0 : no_color, 0, &single[rank], NULL), in_progress);
    EXPECT(ncclGroupEnd(), in_progress);
    for (int rank = 0; rank < 2; rank++)
        finish(world[rank]);
    reduce(single[0], 1);
    EXPECT(single[1] == NULL, 1);

    comm all[] = {single[0], pair[0], pair[1], late[0], late[1], world[0], world[1]};
    for (int index = 0; index < 7; index++) {
        EXPECT(ncclCommFinalize(all[index]), in_progress);
        finish(all[index]);
        EXPECT(ncclCommDestroy(all[index]), success);
    }
    puts("nonblocking: ok");
    return 0;
}
