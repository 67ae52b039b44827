// libdoppler in C++: several texts at once, a row of each in every step.  A generation (doppler/generation.h) writes one text with a
// step for each token; this program shows what is beneath it, steps whose rows are of different sequences, as a server needs them.
//
//   c++ -std=c++11 together.cpp -o together $(pkg-config --cflags --libs doppler)
//   ./together demo.plan 20 "ROMEO:" "JULIET:" "KING:"
#include <doppler/doppler.h>
#include <doppler/text.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace
{

// A failure as an exception, with the library's own words.
struct Check {
    dop_diag diag = {};
    void
    operator()(dop_status st)
    {
        if (st != DOP_OK)
            throw std::runtime_error(diag.message);
    }
};

using Model = std::unique_ptr<dop_model, decltype(&dop_model_close)>;
using Text = std::unique_ptr<dop_text, decltype(&dop_text_destroy)>;
using Ids = std::unique_ptr<uint32_t, void (*)(void *)>;

std::string
decode(const dop_text *text, const dop_sequence *sequence, Check &check)
{
    size_t n, len;
    char *bytes;
    const uint32_t *ids = dop_sequence_tokens(sequence, &n);
    check(dop_text_decode(text, ids, n, &check.diag, &bytes, &len));
    std::string out(bytes, len);
    dop_free(bytes);
    return out;
}

void
run(const char *plan, int n_tokens, const std::vector<std::string> &prompts)
{
    Check check;
    dop_model *opened;
    check(dop_model_open(plan, nullptr, &check.diag, &opened));
    Model model(opened, dop_model_close);
    dop_text *made;
    check(dop_text_of_model(model.get(), &check.diag, &made));
    Text text(made, dop_text_destroy);

    // The last token of a prompt is the first row of its sequence, the others are fed before.
    std::vector<dop_sequence *> sequences; // closed with the model
    std::vector<dop_step_row> rows;
    for (const std::string &prompt : prompts) {
        dop_sequence *s;
        uint32_t *ids;
        size_t n;
        check(dop_sequence_create(model.get(), &check.diag, &s));
        check(dop_text_encode(text.get(), prompt.data(), prompt.size(), DOP_TEXT_ADD_SPECIAL, &check.diag, &ids, &n));
        Ids owned(ids, dop_free);
        if (n == 0)
            throw std::runtime_error("a prompt has no tokens");
        check(dop_sequence_feed(s, ids, n - 1, &check.diag));
        sequences.push_back(s);
        rows.push_back({s, ids[n - 1], DOP_WANTS_PICK});
    }
    for (int i = 0; i < n_tokens; i++) {
        check(dop_step_run(model.get(), rows.data(), static_cast<uint32_t>(rows.size()), &check.diag));
        for (size_t k = 0; k < rows.size(); k++)
            rows[k].token = dop_step_pick(model.get(), static_cast<uint32_t>(k));
        dop_step_commit(model.get());
    }
    for (dop_sequence *s : sequences)
        std::printf("---\n%s\n", decode(text.get(), s, check).c_str());
}

} // namespace

int
main(int argc, char **argv)
{
    if (argc < 4) {
        std::fprintf(stderr, "usage: %s PLAN TOKENS PROMPT...\n", argv[0]);
        return 2;
    }
    try {
        run(argv[1], std::atoi(argv[2]), std::vector<std::string>(argv + 3, argv + argc));
    } catch (const std::exception &e) {
        std::fprintf(stderr, "error: %s\n", e.what());
        return 1;
    }
    return 0;
}
