"""Changes of single datasets of an HDF5 file, for tables of damage."""


def replace(name, change):
    """Replace a dataset by what `change` makes of it."""

    def damage(file):
        values = file[name][:]
        del file[name]
        file.create_dataset(name, data=change(values))

    return damage


def entry(name, place, value):
    """Set one entry of a dataset, or several."""

    def damage(file):
        file[name][place] = value

    return damage
