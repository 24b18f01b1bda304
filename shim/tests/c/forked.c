/* The end of a process that was forked from a warm one: what it registered itself is done, what it was forked with is not. */
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static void say(const char *text)
{
    if (write(1, text, strlen(text)) < 0)
        abort();
}

static void early(void) { say("early "); }
static void late(void) { say("late "); }
__attribute__((destructor)) static void own(void) { say("own "); }

/* What a child prints that exits with 7, where it has loaded `library`. */
static const char *end(const char *library)
{
    static char output[256];
    void (*forked)(void) = (void (*)(void))dlsym(RTLD_DEFAULT, "ftest_forked");
    int ends[2], status = 0;
    size_t length = 0;
    ssize_t part;
    EXPECT(forked && pipe(ends) == 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], 1);
        close(ends[0]);
        forked();
        atexit(late);
        printf("buffered ");
        if (library && !dlopen(library, RTLD_NOW))
            say(dlerror());
        exit(7);
    }
    close(ends[1]);
    while ((part = read(ends[0], output + length, sizeof output - 1 - length)) > 0)
        length += part;
    output[length] = 0;
    close(ends[0]);
    EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status));
    SAME(WEXITSTATUS(status), 7);
    return output;
}

static const char *made(const char *directory, const char *name, const char *source)
{
    static char path[128];
    char command[512];
    snprintf(path, sizeof path, "%s/%s.so", directory, name);
    snprintf(command, sizeof command, "echo '#include <unistd.h>\n%s' | cc -shared -fPIC -x c - -o %s", source, path);
    EXPECT(system(command) == 0);
    return path;
}

int main(void)
{
    char directory[] = "/tmp/forked-XXXXXX";
    atexit(early);
    EXPECT(mkdtemp(directory) != NULL);
    setvbuf(stdout, NULL, _IOFBF, 4096);
    EXPECT(strcmp(end(NULL), "late buffered ") == 0);

    const char *plain = made(directory, "plain", "int plain;");
    EXPECT(strcmp(end(plain), "late buffered ") == 0);
    unlink(plain);

    /* As a profile is written: then the process ends like any other. */
    const char *last = made(directory, "last", "__attribute__((destructor)) static void last(void) { if (write(1, \"last \", 5)) {} }");
    const char *said = end(last);
    EXPECT(strncmp(said, "late early ", 11) == 0 && strstr(said, "own ") && strstr(said, "last ") && strstr(said, "buffered "));
    unlink(last);
    rmdir(directory);
    return failures();
}
