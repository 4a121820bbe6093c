"""The table of what a DINOv2 with other attentions keeps."""

import vit_evidence


def test_table_has_means_spreads_and_empty_cells():
    rows = {
        ('softmax', ''): [dict(cosine=1.0, probe=79.6)],
        ('none', 'swap'): [
            dict(cosine=0.1, probe=70.0),
            dict(cosine=0.3, probe=72.0, **{'mask AP': 2.0}),
        ],
    }
    last, first = [line.split('|')[1:-1] for line in vit_evidence.table(rows).splitlines()[:1:-1]]
    assert [cell.strip() for cell in first] == ['softmax', '', '1', '79.6', '']
    assert [cell.strip() for cell in last] == ['none', 'swap', '0.2 ± 0.14', '71 ± 1.4', '2']
